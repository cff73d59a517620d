# Makes as many processes or threads as it can, up to a number, and stays.
import os, sys, threading, time
kind, most = sys.argv[1], int(sys.argv[2])
def stay():
    time.sleep(600)
for _ in range(most):
    try:
        if kind == 'threads':
            threading.Thread(target=stay, daemon=True).start()
        elif os.fork() == 0:
            stay()
    except (OSError, RuntimeError):
        break
print('multiplied', flush=True)
stay()
