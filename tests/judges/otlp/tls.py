#!/usr/bin/env python3
"""Ends TLS in front of a server on loopback: tls.py KEY CERTIFICATE PORT. Prints its own port."""

import socket
import ssl
import sys
import threading

key, certificate, port = sys.argv[1:]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
# gRPC asks for HTTP/2.
context.set_alpn_protocols(["h2", "http/1.1"])


def copy(source, to):
    try:
        while data := source.recv(1 << 16):
            to.sendall(data)
        to.shutdown(socket.SHUT_WR)
    except OSError:
        # One of the two is gone: so is the connection.
        for end in (source, to):
            end.close()


def serve(plain):
    try:
        client = context.wrap_socket(plain, server_side=True)
        server = socket.create_connection(("127.0.0.1", int(port)))
    except OSError as error:
        print(error, file=sys.stderr)
        plain.close()
        return
    threading.Thread(target=copy, args=(client, server), daemon=True).start()
    copy(server, client)


listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    connection, _ = listener.accept()
    threading.Thread(target=serve, args=(connection,), daemon=True).start()
