# Says the name of another host on connections that were given for an allowed one.
import socket, ssl, sys

context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE


def proxied(port):
    stream = socket.create_connection(('127.0.0.1', 3128), 5)
    stream.sendall(f'CONNECT ok.test:{port} HTTP/1.1\r\nHost: ok.test:{port}\r\n\r\n'.encode())
    stream.recv(4096)
    return stream


def by_socks(port):
    stream = socket.create_connection(('127.0.0.1', 3128), 5)
    stream.sendall(b'\x05\x01\0')
    stream.recv(16)
    stream.sendall(b'\x05\x01\0\x03\x07ok.test' + port.to_bytes(2, 'big'))
    stream.recv(64)
    return stream


def synthetic(port):
    return socket.create_connection(('ok.test', port), 5)


def tls(connect, name, port=443):
    secure = context.wrap_socket(connect(port), server_hostname=name)
    secure.sendall(b'GET /pretended HTTP/1.1\r\nHost: ok.test\r\nConnection: close\r\n\r\n')
    secure.recv(4096)


def split(connect, name):
    # The greeting in many small records and packets.
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    secure = context.wrap_bio(incoming, outgoing, server_hostname=name)
    try:
        secure.do_handshake()
    except ssl.SSLWantReadError:
        pass
    hello = outgoing.read()[5:]
    stream = connect(443)
    for start in range(0, len(hello), 7):
        part = hello[start:start + 7]
        stream.sendall(b'\x16\x03\x01' + len(part).to_bytes(2, 'big') + part)
    while True:
        data = stream.recv(4096)
        if not data:
            return
        incoming.write(data)
        try:
            secure.do_handshake()
            break
        except ssl.SSLWantReadError:
            pass
    stream.sendall(outgoing.read())
    secure.write(b'GET /pretended HTTP/1.1\r\nHost: ok.test\r\nConnection: close\r\n\r\n')
    stream.sendall(outgoing.read())
    stream.recv(4096)


def plain(connect, request, port=80):
    stream = connect(port)
    stream.sendall(request)
    stream.recv(4096)


REQUESTS = (
    b'GET /pretended HTTP/1.1\r\nHost: evil.test\r\n\r\n',
    b'GET http://evil.test/pretended HTTP/1.1\r\nHost: ok.test\r\n\r\n',
    b'GET /pretended HTTP/1.1\r\nHost: ok.test\r\nHost: evil.test\r\n\r\n',
    b'GET /pretended HTTP/1.1\r\nHost : evil.test\r\nHost: ok.test\r\n\r\n',
    b'GET /hello HTTP/1.1\r\nHost: ok.test\r\n\r\nGET /pretended HTTP/1.1\r\nHost: evil.test\r\n\r\n',
)


def attempt(work, *arguments):
    try:
        work(*arguments)
    except (OSError, ValueError):
        pass


for connect in (proxied, by_socks, synthetic):
    for name in ('evil.test', None, 'ok.test.evil.test'):
        attempt(tls, connect, name)
    attempt(split, connect, 'evil.test')
    # Where anything may be spoken the name of another host is refused all the same.
    attempt(tls, connect, 'evil.test', 8443)
    for request in REQUESTS:
        attempt(plain, connect, request)
        attempt(plain, connect, request, 8080)
attempt(plain, lambda port: socket.create_connection(('127.0.0.1', 3128), 5),
        b'GET http://ok.test/pretended HTTP/1.1\r\nHost: evil.test\r\n\r\n')
print('that was all')
