# Listens where the guest's socket would be, and writes down what it hears.
import os, socket
heard = open('/tmp/heard', 'w')
path = '/.coracle/run/guest'
if os.path.exists(path):
    os.unlink(path)
server = socket.socket(socket.AF_UNIX)
server.bind(path)
os.chmod(path, 0o777)
server.listen()
print('listening', file=heard, flush=True)
while True:
    stream, _ = server.accept()
    print(stream.recv(4096), file=heard, flush=True)
