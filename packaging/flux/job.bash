# Functions of prolog and epilog, which both source this file. Needs flux, jq and timeout (coreutils), besides what
# agent.bash needs.
#
# The functions evaluate no text that a user controls: the jobspec goes from flux to jq through a pipe, jq returns one
# of three words, and the job's id is checked.
# shellcheck shell=bash

# Prolog and epilog run as root on every node for every job: a job without rabbit storage must not wait for Warren.
readonly LOOKUP=10 # seconds in which Flux has to show the jobspec

settings=${WARREN_FLUX_FILE:-/etc/warren/flux}
names='WARREN_{PROLOG,EPILOG}_DEADLINE, WARREN_UNREACHABLE, WARREN_ON_TIMEOUT'
node=$HOSTNAME
own_setting() { return 1; }
# shellcheck source=../perilog/agent.bash
. "$(dirname "$(readlink -f "$0")")/../perilog/agent.bash"

# Sets job to the job's id: in F58 with an ASCII f instead of ƒ, or in any other form that Flux gives.
read_job() {
    job=${FLUX_JOB_ID:-}
    [ "${job#ƒ}" = "$job" ] || job=f${job#ƒ}
    [[ $job =~ ^[0-9A-Za-z][0-9A-Za-z.-]*$ ]] && return
    say "FLUX_JOB_ID is ${job@Q}, which is no job id: let Flux start this script"
    exit 2
}

# Prints rabbit, ordinary or unknown. Only a word that jq prints counts: if jq gets no jobspec or a broken one, or is
# not installed, the class is unknown, whatever the exit status is (jq 1.6 calls empty input a success; jq 1.7 does not).
class() {
    local word
    word=$(timeout "$LOOKUP" flux job info "$job" jobspec |
        jq -r 'if (.attributes | type) != "object" then "unknown"
               elif .attributes.system.dw == null then "ordinary"
               else "rabbit" end')
    case $word in rabbit | ordinary) echo "$word" ;; *) echo unknown ;; esac
}

# Succeeds if the script may call the agent for the job's mounts. If Flux does not show the jobspec, only the coordinator
# knows whether the job has storage; a job without storage must not wait a whole deadline for the coordinator's answer.
may_call_agent() {
    [ "$class" = unknown ] || return 0
    say "Flux does not show the jobspec of $job: asking the coordinator whether it has storage"
    verb status ''
    [ "$code" = 0 ]
}

# Flux itself drains a node whose prolog or epilog fails, and keeps a reason that is already set.
drain() {
    flux resource drain --update "$HOSTNAME" "$(reason)" || say "the reason is only in this log: flux resource drain failed"
}
