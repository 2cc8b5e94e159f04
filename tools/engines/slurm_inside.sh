# Called by slurm.sh in a root of its own.
files=/tmp/files
cp $files/reef /usr/local/bin/
mkdir -p /usr/local/lib/reef
cp $files/*.so /usr/local/lib/reef/
export REEF_CUDA=/usr/local/lib/reef/libfake_libcuda.so
packages=$(python3 -c 'import site; print(site.getsitepackages()[0])')
mkdir -p "$packages"
cp -r $files/package "$packages/reef"
cp $files/program.py "$packages/"
cp $files/task-prolog.sh /etc/slurm/reef-task-prolog.sh
chmod 1777 /tmp

host=$(hostname)
echo "127.0.0.1 localhost $host" >>/etc/hosts
groupadd serving
useradd -m -G serving alice
useradd -m bob
{
    cat <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SlurmdSpoolDir=/tmp/spool
StateSaveLocation=/tmp/state
SlurmUser=root
NodeName=$host NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
CONF
    cat $files/slurm.conf
} >/etc/slurm/slurm.conf
mkdir -p /tmp/spool /tmp/state /run/munge /run/reef
chown munge:munge /run/munge
if [ ! -f /etc/munge/munge.key ]; then
    head -c 1024 /dev/urandom >/etc/munge/munge.key
    chown munge /etc/munge/munge.key && chmod 400 /etc/munge/munge.key
fi
setpriv --reuid munge --regid munge --clear-groups munged --force
slurmctld -L /tmp/slurmctld.log
slurmd -L /tmp/slurmd.log
reef serve --device 'cpu:0?units=1' --guests --socket-dir /run/reef --set listen.users=all \
    --set "rights.\"user $(id -u alice)\"={ rt = true }" >/tmp/serve.log 2>&1 &
daemon=$!
for ((i = 0; i < 300; i++)); do
    if [ -S /run/reef/http.sock ] && sinfo -h -o %t | grep -q idle; then break; fi
    sleep 0.1
done
sinfo

as() { setpriv --reuid "$1" --regid "$1" --init-groups env HOME="/home/$1" timeout 60 bash -c "cd /tmp; $2"; }
# `!` before a command never ends a script.
refused() { # COMMAND: it fails; /tmp/said has what it said
    if as bob "$1" >/tmp/said 2>&1; then
        cat /tmp/said
        echo "WRONG: not refused: $1"
        exit 1
    fi
    cat /tmp/said
}
without() { # PATTERN: no line of /tmp/said has it
    if grep "$1" /tmp/said; then
        echo "WRONG: said: $1"
        exit 1
    fi
}
cat >/tmp/program_of_job.py <<'PYTHON'
import os, sys
import program

driver = program.Driver()
driver.launch()
program.until(lambda: program.status()["class"] is not None)
print(os.environ["SLURM_JOB_PARTITION"], os.environ.get("REEF_JOB"), program.status()["class"], flush=True)
if sys.argv[1:] == ["busy"]:
    print("launches:", driver.launch_for(3))
elif sys.argv[1:] == ["wait"]:
    open("/tmp/waits", "w").close()
    program.until(lambda: program.status()["held"], 40)
    print("held by the real-time job", flush=True)
    program.until(lambda: not program.status()["held"], 40)
    print("and released", flush=True)
PYTHON
run="srun -n 1 python3 /tmp/program_of_job.py"

echo "== two tasks of a job in the partition of best-effort work"
as bob "srun -n 2 -c 1 python3 /tmp/program_of_job.py" | sort | uniq -c | tee /tmp/said
grep -q '2 batch slurm-[0-9]* be' /tmp/said

echo "== one of each class"
as bob "$run wait" &
waits=$!
for ((i = 0; i < 300; i++)); do [ ! -e /tmp/waits ] || break; sleep 0.1; done
as alice "srun -n 1 -p realtime python3 /tmp/program_of_job.py busy"
wait $waits

echo "== a user whom the daemon does not grant real time"
usermod -aG serving bob
scontrol reconfigure
sleep 2
refused "srun -n 1 -p realtime python3 /tmp/program_of_job.py"
grep -q 'class rt requires' /tmp/said
without 'realtime None rt'

echo "== no daemon"
kill $daemon
wait $daemon || true
refused "$run"
grep -q 'not run: no daemon' /tmp/said
without '^batch'
echo "Slurm: all as it should be"
