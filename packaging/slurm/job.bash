# Functions of prolog and epilog, which both source this file. Needs scontrol and timeout (coreutils), besides what
# agent.bash needs.
# shellcheck shell=bash

# Prolog and epilog run as root on every node for every job: a job without storage must not wait long for Warren.
readonly FIRST=10  # seconds in which the coordinator has to say whether the job has storage
readonly LOOKUP=10 # seconds in which slurmctld has to show the job

settings=${WARREN_SLURM_FILE:-/etc/warren/slurm}
names='WARREN_{PROLOG,EPILOG,STORAGE,END}_DEADLINE, WARREN_UNREACHABLE, WARREN_ON_{TIMEOUT,FAILURE}, WARREN_COORDINATOR, WARREN_POOL, WARREN_FEATURE'
node=${SLURMD_NODENAME:-$HOSTNAME}
on_failure=requeue
own_setting() {
    case $1 in
    # burst_buffer.lua reads these settings.
    WARREN_COORDINATOR | WARREN_POOL | WARREN_FEATURE | WARREN_STORAGE_DEADLINE | WARREN_END_DEADLINE) ;;
    WARREN_ON_FAILURE) [[ $2 =~ ^(requeue|hold|cancel)$ ]] && on_failure=$2 ;;
    *) return 1 ;;
    esac
}
# shellcheck source=../perilog/agent.bash
. "$(dirname "$(readlink -f "$0")")/../perilog/agent.bash"

# Sets id (the job's number) and job (the name of the job's Workflow).
read_job() {
    id=${SLURM_JOB_ID:-}
    job=slurm-$id
    [[ $id =~ ^[0-9]{1,10}$ ]] && return
    say "SLURM_JOB_ID is ${id@Q}, which is no job id: let Slurm start this script"
    exit 2
}

# Prints slurmctld's record of the job on one line. Called only after a failure: a call from every node of every job
# would load slurmctld.
shown() { timeout "$LOOKUP" scontrol show job --oneliner "$id"; }

shown_node() { timeout "$LOOKUP" scontrol show node --oneliner "$node"; }

# call_agent WORD SECONDS FLAGS: calls the agent's verb WORD with a deadline of SECONDS. If the agent or the coordinator
# does not answer, ends the script for a job without storage, which need not wait.
call_agent() {
    local word=$1 deadline=$2 first=()
    shift 2
    # The first call for an unmount only reports the processes that use the mount: none is ended before the deadline.
    [ "$word" = mount ] && first=("$@") || first=(--on-timeout report)
    once "$word" --job "$job" --deadline "$((deadline < FIRST ? deadline : FIRST))s" "${first[@]}"
    case $code in
    3) ;;
    7 | 8) [[ $(shown) == *' BurstBuffer='* ]] || { say "job $id has no storage"; exit 0; } ;;
    *) return ;;
    esac
    [ -z "$cancelled" ] || return 0
    verb "$word" "$deadline" "$@"
}

# Drains this node; the reason names the node, the mount and the processes that use it. An earlier reason of Warren
# stays: it names the first failure.
drain() {
    [[ $(shown_node) != *" Reason=$node: warren "* ]] || return 0
    scontrol update NodeName="$node" State=DRAIN Reason="$(reason)" && return
    say "the reason is only in this log: scontrol failed"
    return 1
}
