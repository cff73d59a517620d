# Requests whose end a proxy and a server may see in different places: what follows must not arrive.
import socket

INNER = b'GET /smuggled HTTP/1.1\r\nHost: evil.test\r\n\r\n'
CHUNKED = b'0\r\n\r\n' + INNER


def head(line, *headers):
    return b'\r\n'.join((line, b'Host: ok.test') + headers) + b'\r\n\r\n'


LINE = b'POST http://ok.test/echo HTTP/1.1'
LENGTH = b'Content-Length: ' + str(len(INNER)).encode()
REQUESTS = [
    head(LINE, b'Content-Length: 0', LENGTH) + INNER,
    head(LINE, LENGTH, b'Content-Length: 0') + INNER,
    head(LINE, b'Content-Length: 0, ' + str(len(INNER)).encode()) + INNER,
    head(LINE, b'Content-Length: +0') + INNER,
    head(LINE, b'Content-Length: 0x0') + INNER,
    head(LINE, b'Content-Length: ' + str(len(CHUNKED)).encode(), b'Transfer-Encoding: chunked') + CHUNKED,
    head(LINE, b'Transfer-Encoding: chunked', b'Content-Length: ' + str(len(CHUNKED)).encode()) + CHUNKED,
    head(LINE, b'Content-Length: ' + str(len(CHUNKED)).encode(), b'Transfer-Encoding : chunked') + CHUNKED,
    head(LINE, b'Content-Length: ' + str(len(CHUNKED)).encode(), b'Transfer-Encoding: xchunked') + CHUNKED,
    head(LINE, b'Content-Length: ' + str(len(CHUNKED)).encode(), b'X: y\r\n Transfer-Encoding: chunked') + CHUNKED,
    head(LINE, b'Transfer-Encoding: identity, chunked') + CHUNKED,
    head(LINE, b'Transfer-Encoding:\x0bchunked') + CHUNKED,
    head(LINE, b'Transfer-Encoding: chunked', b'Transfer-Encoding: identity') + CHUNKED,
    head(LINE, b'Transfer-Encoding: chunked') + b'0;x=\n\r\n\r\n' + INNER,
    head(LINE, b'Transfer-Encoding: chunked') + b'00000000000000000\r\n\r\n' + INNER,
    head(LINE, b'Transfer-Encoding: chunked') + b'-0\r\n\r\n' + INNER,
    head(LINE, b'Transfer-Encoding: chunked') + b'1\nA\n0\n\n' + INNER,
    head(LINE, b'Transfer-Encoding: chunked') + b'0\r\nX: y\r\n\r\n' + INNER,
    head(b'GET http://ok.test/hello HTTP/1.1') + INNER,
    head(b'GET http://ok.test/hello HTTP/1.1') + b'GET http://evil.test/smuggled HTTP/1.1\r\nHost: evil.test\r\n\r\n',
    head(b'GET http://ok.test/hello HTTP/1.0', b'Connection: keep-alive') + INNER,
    head(b'GET http://ok.test/hello HTTP/1.1\r\nX: y\n\nGET /smuggled HTTP/1.1'),
    head(b'GET http://ok.test/hello HTTP/1.1', b'X: y\r\r\n\nGET /smuggled HTTP/1.1'),
    head(b'GET http://ok.test/hello HTTP/1.1', b'X: y\n\nGET /smuggled HTTP/1.1\nHost: evil.test\n') + INNER,
    head(b'GET http://ok.test/hello\r\n\r\nGET /smuggled HTTP/1.1'),
    head(b'GET  http://ok.test/smuggled HTTP/1.1'),
    head(b'GET http://ok.test/hello HTTP/1.1\x0b', b'Upgrade: echo', b'Connection: Upgrade') + INNER,
    head(b'GET http://ok.test/hello HTTP/1.1', b'Upgrade: echo', b'Connection: Upgrade') + INNER,
    head(b'CONNECT ok.test:80 HTTP/1.1', LENGTH) + INNER,
    head(b'CONNECT ok.test:80 HTTP/1.1') + b'CONNECT evil.test:80 HTTP/1.1\r\nHost: evil.test\r\n\r\n' + INNER,
    head(b'CONNECT ok.test:80 HTTP/1.1') + head(b'GET /hello HTTP/1.1') + INNER,
    b'GET http://ok.test/hello HTTP/1.1\r\nHost: ok.test\r\nHost: ok.test\r\n\r\n' + INNER,
    b'GET http://ok.test/smuggled HTTP/1.1\r\n\r\n',
    b'GET http://evil.test@ok.test/smuggled HTTP/1.1\r\nHost: ok.test\r\n\r\n',
    b'GET /smuggled HTTP/1.1\r\nHost: ok.test\r\n\r\n',
    b'\r\n' * 3 + INNER,
    b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + INNER,
]
for request in REQUESTS:
    for pieces in ([request], [request[:40], request[40:]]):
        try:
            stream = socket.create_connection(('127.0.0.1', 3128), 5)
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for piece in pieces:
                stream.sendall(piece)
            stream.settimeout(0.3)
            while stream.recv(4096):
                pass
        except OSError:
            pass
print('that was all')
