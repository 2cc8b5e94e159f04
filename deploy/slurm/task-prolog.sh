#!/bin/sh
# TaskProlog of slurm.conf: every task of a job is a program of REEF, in the class of its partition. Users change nothing.
# A line `export NAME=VALUE` becomes a variable of the task, and one `print TEXT` goes to its output.
#
#     TaskProlog=/etc/slurm/reef-task-prolog.sh
#
# The daemon is the node's: deploy/systemd. It grants classes by user, whatever the partition says.
class=be
job="--job slurm-$SLURM_JOB_ID" # its tasks are held together
if [ "$SLURM_JOB_PARTITION" = "${REEF_PARTITION:-realtime}" ]; then
    class=rt
    job=
fi
# shellcheck disable=SC2086 # two words, or none
if found=$(reef exec --strict --class "$class" $job --socket-dir "${REEF_SOCKETS:-/run/reef}" -- env 2>&1); then
    echo "$found" | sed -n 's/^\(LD_PRELOAD\|NUMBA_CUDA_DRIVER\|REEF_[A-Z_]*\)=/export &/p'
else
    echo "print $found"
    exit 1 # no task runs without its class
fi
