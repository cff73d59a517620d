# Takes every place for a process there is, again and again.
import os, time
said = False
while True:
    try:
        if os.fork() == 0:
            time.sleep(600)
    except OSError:
        if not said:
            print('full', flush=True)
            said = True
        time.sleep(0.001)
