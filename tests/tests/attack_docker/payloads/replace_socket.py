# Finds the guest's socket, says hello, takes its place, and writes down what it is told there.
import os, socket, stat, sys, time
told = open('/tmp/told', 'w')
place = '/.coracle/run'
def tell(word):
    print(word, file=told, flush=True)
try:
    names = os.listdir(place)
except OSError:
    names = []
for name in names:
    path = os.path.join(place, name)
    if not stat.S_ISSOCK(os.lstat(path).st_mode):
        continue
    try:
        socket.socket(socket.AF_UNIX).connect(path)
        tell('connected to the guest')
    except OSError:
        pass
    try:
        os.unlink(path)
        tell('removed the socket')
    except OSError:
        pass
try:
    impostor = socket.socket(socket.AF_UNIX)
    impostor.bind(place + '/guest')
    os.chmod(place + '/guest', 0o777)
    impostor.listen()
except OSError:
    impostor = None
tell('listening')
while impostor:
    stream, _ = impostor.accept()
    if stream.recv(4096):
        open('/tmp/heard', 'w').write('heard')
time.sleep(600)
