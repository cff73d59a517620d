# Reads from an allowed host until it is cut off, then tries other hosts by every way there is.
import socket, sys, threading

stream = socket.create_connection(('127.0.0.1', 3128), 5)
stream.sendall(b'GET http://ok.test/endless HTTP/1.1\r\nHost: ok.test\r\n\r\n')
stream.settimeout(10)
first = stream.recv(4096)
print('streaming', first[:20], flush=True)
try:
    while stream.recv(4096):
        pass
    print('cut off', flush=True)
except TimeoutError:
    print('silence')
except OSError:
    print('cut off', flush=True)


def attempt(address, request):
    try:
        connection = socket.create_connection(address, 4)
        connection.settimeout(4)
        connection.sendall(request)
        answer = connection.recv(64)
        if answer and b' 200 ' in answer:
            print('reached something at', address, answer[:20])
    except OSError:
        pass


HELLO = b'GET %b HTTP/1.1\r\nHost: %b\r\nConnection: close\r\n\r\n'
OTHER = HELLO % (b'/hello', b'evil.test')
ways = [(('127.0.0.1', 3128), HELLO % (b'http://evil.test/hello', b'evil.test')), (('127.77.0.1', 80), OTHER)]
ways += [((address, 80), OTHER) for address in sys.argv[1:]]
threads = [threading.Thread(target=attempt, args=way) for way in ways]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
