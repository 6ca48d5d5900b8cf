# Functions of prolog and epilog, which both source this file. Needs flux, jq and timeout (coreutils) too.
#
# Nothing that a user controls is evaluated: the jobspec goes from flux to jq through a pipe, of which only one of three
# words comes back; the job's id is checked.
# shellcheck shell=bash

# Both run as root on every node for every job: a job without rabbit storage must not wait for Warren.
readonly LOOKUP=10 # seconds for Flux to show the jobspec

settings=${WARREN_FLUX_FILE:-/etc/warren/flux}
names='WARREN_{PROLOG,EPILOG}_DEADLINE, WARREN_UNREACHABLE, WARREN_ON_TIMEOUT'
node=$HOSTNAME
own_setting() { return 1; }
# shellcheck source=../perilog/agent.bash
. "$(dirname "$(readlink -f "$0")")/../perilog/agent.bash"

# Sets job: F58 with an ASCII f, or any other form that Flux gives.
read_job() {
    job=${FLUX_JOB_ID:-}
    [ "${job#ƒ}" = "$job" ] || job=f${job#ƒ}
    [[ $job =~ ^[0-9A-Za-z][0-9A-Za-z.-]*$ ]] && return
    say "FLUX_JOB_ID is ${job@Q}, which is no job id: let Flux start this script"
    exit 2
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

# Succeeds if the agent can be asked for the job's mounts. If Flux does not show the jobspec, only the coordinator knows
# whether the job has storage; a job without storage must not wait a whole deadline for the coordinator's answer.
can_ask() {
    [ "$class" = unknown ] || return 0
    say "Flux does not show the jobspec of $job: asking the coordinator whether it has storage"
    verb status ''
    [ "$code" = 0 ]
}

# Flux itself drains a node whose prolog or epilog fails, and keeps a reason that is already set.
drain() {
    flux resource drain --update "$HOSTNAME" "$(reason)" || say "the reason is only in this log: flux resource drain failed"
}
