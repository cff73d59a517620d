# Serves on every address it has, and talks to itself.
import socket, threading, time

server = socket.create_server(('', 7788), family=socket.AF_INET6, dualstack_ipv6=True)


def serve():
    while True:
        server.accept()[0].sendall(b'neighbour\n')


threading.Thread(target=serve, daemon=True).start()
speaker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
print('up', flush=True)
while True:
    speaker.sendto(b'neighbour-speaks', ('127.0.0.1', 7799))
    time.sleep(0.02)
