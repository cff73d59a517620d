# Tries to change the guest's program and the directory it lies in, and prints what worked. What it makes is harmless.
import os, sys
made = '/.coracle/' + sys.argv[1]
def attempt(word, change):
    try:
        change()
        print(word)
    except OSError:
        pass
attempt('made a file beside the program', lambda: open(made, 'w').close())
attempt('removed a file beside the program', lambda: os.unlink(made))
attempt('linked the program', lambda: os.link('/.coracle/guest', made))
attempt('changed the mode of the program', lambda: os.chmod('/.coracle/guest', 0o555))
attempt('changed the times of the program', lambda: os.utime('/.coracle/guest'))
attempt('opened the program to write', lambda: os.open('/.coracle/guest', os.O_WRONLY))
attempt('moved the directory', lambda: os.rename('/.coracle', '/moved'))
try:
    os.unlink(made)
except OSError:
    pass
