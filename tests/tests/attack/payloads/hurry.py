# Asks to be run before others, and stays.
import os, time
for ask in (lambda: os.setpriority(os.PRIO_PROCESS, 0, -10),
            lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))):
    try:
        ask()
    except OSError:
        pass
time.sleep(600)
