# What prolog and epilog share; both source it. Needs bash 4.4, flux, jq, timeout (coreutils) and clientmount-agent.
#
# Nothing that a user controls is evaluated: the jobspec goes from flux to jq through a pipe, of which only one of three
# words comes back; the job's id is checked; what the agent prints is passed on as one argument without control characters.
# shellcheck shell=bash

export LC_ALL=C

# Both run as root on every node for every job: a job without rabbit storage must not wait for anything of ours.
readonly LOOKUP=10 # seconds for Flux to show the jobspec
readonly PAUSE=1   # seconds between two tries to reach the coordinator

settings=${WARREN_FLUX_FILE:-/etc/warren/flux}
script=${0##*/}
cancelled=
agent=
code=0
report=

say() { printf 'warren %s: %s\n' "$script" "$*" >&2; }

# Flux ends a prolog with SIGTERM when the job is cancelled; bash hears of it between two commands, the agent at once.
cancel() {
    cancelled=yes
    [ -z "$agent" ] || kill -TERM "$agent" 2>/dev/null
}
trap cancel TERM INT HUP

# Sets job: F58 with an ASCII f, or any other form that Flux gives.
read_job() {
    job=${FLUX_JOB_ID:-}
    [ "${job#ƒ}" = "$job" ] || job=f${job#ƒ}
    [[ $job =~ ^[0-9A-Za-z][0-9A-Za-z.-]*$ ]] && return
    say "FLUX_JOB_ID is ${job@Q}, which is no job id: let Flux start this script"
    exit 2
}

# seconds NAME VALUE: a whole number of s, m, h or d, without a unit seconds.
seconds() {
    [[ $2 =~ ^([0-9]{1,7})(s|m|h|d)?$ ]] || return 1
    local number=$((10#${BASH_REMATCH[1]}))
    case ${BASH_REMATCH[2]} in m) number=$((number * 60)) ;; h) number=$((number * 3600)) ;; d) number=$((number * 86400)) ;; esac
    printf -v "$1" %d "$number"
}

wrong() {
    report="$settings: $*"
    say "$report"
    code=2
    return 1
}

# Sets prolog_deadline (empty: ask Flux), epilog_deadline, unreachable and on_timeout (empty: the agent's own). Fails with code 2 and a report.
read_settings() {
    prolog_deadline='' epilog_deadline=300 unreachable=60 on_timeout=()
    [ -e "$settings" ] || return 0
    [ -r "$settings" ] || { wrong "cannot be read"; return; }
    local line name value
    while IFS= read -r line || [ -n "$line" ]; do
        [[ $line =~ ^[[:space:]]*(#|$) ]] && continue
        name=${line%%=*} value=${line#*=}
        case $name in
        WARREN_PROLOG_DEADLINE) seconds prolog_deadline "$value" ;;
        WARREN_EPILOG_DEADLINE) seconds epilog_deadline "$value" ;;
        WARREN_UNREACHABLE) seconds unreachable "$value" ;;
        WARREN_ON_TIMEOUT) [[ $value =~ ^(report|signal|lazy)$ ]] && on_timeout=(--on-timeout "$value") ;;
        *) wrong "${line@Q} sets nothing; there are WARREN_{PROLOG,EPILOG}_DEADLINE, WARREN_UNREACHABLE, WARREN_ON_TIMEOUT"; return ;;
        esac || { wrong "$name: ${value@Q} is neither a time like 300s, 5m or 1h nor, for WARREN_ON_TIMEOUT, report, signal or lazy"; return; }
    done <"$settings"
}

# Prints rabbit, ordinary or unknown. The word has to come from jq itself: an empty answer, a broken one or no jq at all is
# unknown, whatever the exit status is (jq 1.6 calls empty input a success, jq 1.7 does not).
class() {
    local word
    word=$(timeout "$LOOKUP" flux job info "$job" jobspec |
        jq -r 'if (.attributes | type) != "object" then "unknown"
               elif .attributes.system.dw == null then "ordinary"
               else "rabbit" end')
    case $word in rabbit | ordinary) echo "$word" ;; *) echo unknown ;; esac
}

# once WORDS: one run of the agent, whose lines go to the log as they come. Sets code, and report: what failed and who
# holds it, or everything when the agent tells neither.
once() {
    local line lines status=0 all='' failed=''
    exec {lines}< <(exec clientmount-agent "$@" 2>&1)
    agent=$!
    [ -z "$cancelled" ] || cancel
    # In POSIX mode a signal interrupts read, which then fails with more than 128.
    set -o posix
    while [ "$status" = 0 ] || [ "$status" -gt 128 ]; do
        IFS= read -r line <&"$lines"
        status=$?
        [ "$status" = 0 ] || continue
        say "${line//[^[:print:]]/ }"
        all+=${all:+; }$line
        case $line in error:* | *' is held by '*) failed+=${failed:+; }$line ;; esac
    done
    set +o posix
    report=${failed:-$all}
    exec {lines}<&-
    wait "$agent"
    code=$?
    # A signal to this script ends wait, not the agent.
    while kill -0 "$agent" 2>/dev/null; do wait "$agent"; code=$?; done
    agent=
}

# verb WORD SECONDS FLAGS: once, and again while coordinator or agent do not answer, for as long as the site allows. SECONDS may be empty.
verb() {
    local word=$1 deadline=$2 begun=$SECONDS left=()
    shift 2
    while :; do
        [ -z "$deadline" ] || left=(--deadline "$((deadline > SECONDS - begun ? deadline - (SECONDS - begun) : 1))s")
        once "$word" --job "$job" "${left[@]}" "$@"
        [[ $code = [78] && -z $cancelled ]] && ((SECONDS - begun < unreachable)) || return 0
        sleep "$PAUSE"
        [ -z "$cancelled" ] || return 0
    done
}

# Whether the job's mounts can be asked for. Of a job that Flux does not show only the coordinator knows whether it has any,
# and a job without must not wait for a whole deadline until it answers.
can_ask() {
    [ "$class" = unknown ] || return 0
    say "Flux does not show the jobspec of $job: asking the coordinator whether it has storage"
    verb status ''
    [ "$code" = 0 ]
}

# One argument for Flux: names this node, then what the agent said of mounts and holders.
reason() {
    local text="$HOSTNAME: warren $script of job $job: ${report:-no message} (exit code $code)"
    text=${text//[^[:print:]]/ }
    while [[ $text == *'  '* ]]; do text=${text//  / }; done
    printf '%s' "${text:0:800}"
}

# Flux itself drains a node whose prolog or epilog fails, and leaves a reason that is there already as it is.
drain() {
    flux resource drain --update "$HOSTNAME" "$(reason)" || say "the reason is only in this log: flux resource drain failed"
}

# The timer that renews a token does not run while this file exists.
quiet() { [ ! -d "${WARREN_RUN:-/run/warren}" ] || : >"${WARREN_RUN:-/run/warren}/quiet" || say "${WARREN_RUN:-/run/warren}/quiet cannot be made"; }
loud() { rm -f "${WARREN_RUN:-/run/warren}/quiet"; }
