# Holds connections until it is told that they are no longer allowed, and then uses them.
import os, socket, time

held = {}
stream = socket.create_connection(('db.test', 5432), 5)
stream.sendall(b'before\n')
held['database'] = stream
stream = socket.create_connection(('127.0.0.1', 3128), 5)
stream.sendall(b'CONNECT db.test:5432 HTTP/1.1\r\nHost: db.test:5432\r\n\r\n')
stream.recv(4096)
stream.sendall(b'before\n')
held['database by proxy'] = stream
stream = socket.create_connection(('ok.test', 80), 5)
stream.sendall(b'GET /upgrade HTTP/1.1\r\nHost: ok.test\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n')
held['http'] = stream
for stream in held.values():
    stream.settimeout(5)
    stream.recv(4096)
print('connected', flush=True)
while not os.path.exists('/workspace/narrowed'):
    time.sleep(0.01)
for name, stream in held.items():
    try:
        stream.sendall(b'after\n')
        if b'after' in stream.recv(4096):
            print('still talks to', name)
    except OSError:
        pass
