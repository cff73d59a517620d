# Leaves descendants behind in every way there is, and ends.
import ctypes, os, signal, sys, time
libc = ctypes.CDLL(None)
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
def stay():
    os.closerange(0, 3)
    while True:
        time.sleep(60)
def double():
    os.setsid()
    if os.fork():
        os._exit(0)
    stay()
def reaper():
    libc.prctl(36, 1, 0, 0, 0)
    for _ in range(3):
        if os.fork() == 0:
            double()
    stay()
def forking():
    while True:
        if os.fork():
            os._exit(0)
def stopped():
    os.setsid()
    os.kill(os.getpid(), signal.SIGSTOP)
    stay()
for kind in (stay, double, reaper, forking, stopped):
    if os.fork() == 0:
        kind()
time.sleep(0.3)
print('left', flush=True)
