# Asks the proxy for hosts in every way it understands; what comes of it is seen from outside. A host is written with
# escapes, since an argument cannot hold every byte.
import ipaddress, socket, sys


def ask(*parts):
    try:
        stream = socket.create_connection(('127.0.0.1', 3128), 5)
        answer = b''
        for part in parts:
            stream.sendall(part)
            answer = stream.recv(4096)
            if not answer or answer.startswith(b'HTTP/1.1 4') or answer[:2] == b'\x05\x02':
                break
        stream.close()
        if b'credentials-of' in answer or b'trap-secret' in answer:
            print('read what is behind', parts[0][:60])
    except OSError:
        pass


def binary(host):
    try:
        address = ipaddress.ip_address(host.decode().strip('[]').partition('%')[0])
    except ValueError:
        return []
    kinds = [bytes([1 if address.version == 4 else 4]) + address.packed]
    if address.version == 4:
        kinds.append(b'\x04' + ipaddress.ip_address('::ffff:' + str(address)).packed)
    return kinds


for word in sys.argv[1:]:
    text, _, port = word.rpartition(':') if not word.endswith(']') else (word, '', '80')
    host = text.encode('latin-1').decode('unicode_escape').encode('latin-1')
    number, get = int(port).to_bytes(2, 'big'), b'GET / HTTP/1.1\r\nHost: ' + host + b'\r\nConnection: close\r\n\r\n'
    where = host + b':' + port.encode()
    ask(b'CONNECT ' + where + b' HTTP/1.1\r\nHost: ' + where + b'\r\n\r\n', get)
    ask(b'GET http://' + where + b'/ HTTP/1.1\r\nHost: ' + where + b'\r\nConnection: close\r\n\r\n')
    for target in [b'\x03' + bytes([min(len(host), 255)]) + host[:255]] + binary(host):
        ask(b'\x05\x01\0', b'\x05\x01\0' + target + number, get)
