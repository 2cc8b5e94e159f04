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
names='LD_PRELOAD\|LD_LIBRARY_PATH\|NUMBA_CUDA_DRIVER\|CUDA_MPS_CLIENT_PRIORITY\|REEF_[A-Z_]*'
# Nothing is mounted: a mount is for the prolog alone, and the variables would name files that the task does not see.
# shellcheck disable=SC2086 # two words, or none
if found=$(reef exec --strict --bind never --class "$class" $job --socket-dir "${REEF_SOCKETS:-/run/reef}" -- env 2>&1); then
    echo "$found" | sed -n "s/^\($names\)=/export &/p"
else
    echo "print $found"
    exit 1 # no task runs without its class
fi
