# Functions of the prologs and epilogs of all workload managers. Needs bash 4.4 and clientmount-agent.
#
# A script that sources this file first sets settings (the path of the administrator's file), names (the settings that
# the file may have) and node (this node's name), and defines own_setting NAME VALUE, which handles the settings of one
# workload manager. The script's function read_job sets job.
#
# The functions evaluate no text that a user controls: they pass the agent's output on as one argument without control
# characters.
# shellcheck shell=bash disable=SC2034,SC2154

export LC_ALL=C

readonly PAUSE=1 # seconds between two tries to reach the coordinator

script=${0##*/}
cancelled=
agent=
code=0
report=

say() { printf 'warren %s: %s\n' "$script" "$*" >&2; }

# A workload manager may end a prolog with SIGTERM when the job is cancelled; bash runs this trap between two commands,
# and the trap signals the agent.
cancel() {
    cancelled=yes
    [ -z "$agent" ] || kill -TERM "$agent" 2>/dev/null
}
trap cancel TERM INT HUP

# seconds NAME VALUE: sets the variable NAME to VALUE in seconds. VALUE is a whole number of s, m, h or d; without a
# unit, of seconds.
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

# Sets prolog_deadline (empty: the file does not set it), epilog_deadline, unreachable and on_timeout (empty: the
# agent's own setting). Fails with code 2 and a report.
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
        *) own_setting "$name" "$value" || { wrong "${line@Q} sets no variable of this file; its variables are $names"; return; } ;;
        esac || { wrong "$name: ${value@Q} is neither a time like 300s, 5m or 1h nor, for WARREN_ON_TIMEOUT, report, signal or lazy"; return; }
    done <"$settings"
}

# once WORDS: runs the agent once, and logs each line of its output immediately. Sets code, the exit status, and report:
# the agent's lines about failures and about processes that hold a mount, or all its lines if there are none.
once() {
    local line='' part pipe lines into status=0 all='' failed=''
    # The agent is a background job: bash may forget the status of a process substitution that ends early, and `wait`
    # then cannot return it.
    exec {pipe}<> <(:)
    exec {lines}<"/dev/fd/$pipe" {into}>"/dev/fd/$pipe" {pipe}>&-
    clientmount-agent "$@" >&"$into" 2>&1 {lines}<&- {into}>&- &
    agent=$!
    exec {into}>&-
    [ -z "$cancelled" ] || cancel
    # read has a time-out of 1 s: a signal that arrives just before the read is handled only after the read.
    while [ "$status" = 0 ] || [ "$status" -gt 128 ]; do
        IFS= read -r -t 1 part <&"$lines"
        status=$?
        line+=$part
        [ "$status" = 0 ] || continue
        say "${line//[^[:print:]]/ }"
        all+=${all:+; }$line
        case $line in error:* | *' is held by '*) failed+=${failed:+; }$line ;; esac
        line=
    done
    report=${failed:-$all}
    exec {lines}<&-
    wait "$agent"
    code=$?
    # A signal to this script ends wait, not the agent.
    while kill -0 "$agent" 2>/dev/null; do wait "$agent"; code=$?; done
    agent=
}

# verb WORD SECONDS FLAGS: calls the agent's verb WORD with a deadline of SECONDS (empty: none). Repeats the call while
# the coordinator or the agent does not answer, for at most `unreachable` seconds.
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

# Prints the reason as one argument for the workload manager: this node's name, then the agent's lines in `report`.
reason() {
    local text="$node: warren $script of job $job: ${report:-no message} (exit code $code)"
    text=${text//[^[:print:]]/ }
    while [[ $text == *'  '* ]]; do text=${text//  / }; done
    printf '%s' "${text:0:800}"
}

# quiet creates a file, and loud removes it: while the file exists, the timer that renews tokens does nothing.
quiet() { [ ! -d "${WARREN_RUN:-/run/warren}" ] || : >"${WARREN_RUN:-/run/warren}/quiet" || say "${WARREN_RUN:-/run/warren}/quiet cannot be made"; }
loud() { rm -f "${WARREN_RUN:-/run/warren}/quiet"; }
