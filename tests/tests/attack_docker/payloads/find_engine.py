# Looks for an engine behind every socket in sight and at the ports engines listen at, and prints each.
import os, socket, stat
def asks(stream, where):
    stream.settimeout(1)
    try:
        stream.sendall(b'GET /_ping HTTP/1.0\r\n\r\n')
        if b'HTTP/1' in stream.recv(64):
            print('an engine answers at', where)
    except OSError:
        pass
for directory, _, names in os.walk('/'):
    if directory.startswith(('/proc', '/sys', '/usr')):
        continue
    for name in names:
        path = os.path.join(directory, name)
        try:
            if stat.S_ISSOCK(os.lstat(path).st_mode):
                stream = socket.socket(socket.AF_UNIX)
                stream.connect(path)
                asks(stream, path)
        except OSError:
            pass
for host in ('127.0.0.1', '172.17.0.1', '192.168.65.7', '10.0.2.2', '169.254.169.254'):
    for port in (2375, 2376, 4243):
        try:
            asks(socket.create_connection((host, port), 0.3), (host, port))
        except OSError:
            pass
