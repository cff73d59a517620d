# Opens many connections to places that do not answer and holds them; what is hung up is opened again.
import resource, select, socket, sys, time

resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
wanted, prefix = int(sys.argv[1]), sys.argv[2]
held, number = {}, 0
poll = select.poll()
print('flooding', flush=True)
until = time.monotonic() + 30
while time.monotonic() < until:
    for _ in range(min(16, wanted - len(held))):
        try:
            stream = socket.create_connection(('127.0.0.1', 3128), 2)
            place = f'{prefix}.{number % 250 + 1}:{1000 + number // 250 % 60000}'
            stream.sendall(f'CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n'.encode())
        except OSError:
            continue
        held[stream.fileno()], number = stream, number + 1
        poll.register(stream, select.POLLIN)
    for descriptor, _ in poll.poll(20):
        poll.unregister(descriptor)
        held.pop(descriptor).close()
