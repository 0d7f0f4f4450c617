// Connections over the loopback interface: `connections 4|6 TIMES` makes so many, each closed by
// the client first, and prints its process id and the server's port; `connections refused` is told
// that nobody listens; `connections silent MS` begins one that nobody answers, and gives up after
// so many ms.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

static void check(int ok, const char *what)
{
    if (!ok) {
        perror(what);
        exit(1);
    }
}

static socklen_t address(int family, unsigned short port, struct sockaddr_storage *to)
{
    memset(to, 0, sizeof *to);
    if (family == AF_INET6) {
        struct sockaddr_in6 *in = (struct sockaddr_in6 *)to;
        in->sin6_family = AF_INET6;
        in->sin6_addr = in6addr_loopback;
        in->sin6_port = htons(port);
        return sizeof *in;
    }
    struct sockaddr_in *in = (struct sockaddr_in *)to;
    in->sin_family = AF_INET;
    in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    in->sin_port = htons(port);
    return sizeof *in;
}

static unsigned short port_of(int fd)
{
    struct sockaddr_storage own;
    socklen_t length = sizeof own;
    check(getsockname(fd, (struct sockaddr *)&own, &length) == 0, "getsockname");
    return ntohs(own.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&own)->sin6_port
                                           : ((struct sockaddr_in *)&own)->sin_port);
}

static int listening(int family, int backlog)
{
    struct sockaddr_storage any;
    int fd = socket(family, SOCK_STREAM, 0);
    socklen_t length = address(family, 0, &any);
    check(fd >= 0 && bind(fd, (struct sockaddr *)&any, length) == 0, "bind");
    check(listen(fd, backlog) == 0, "listen");
    return fd;
}

int main(int argc, char **argv)
{
    struct sockaddr_storage to;
    check(argc > 1, "arguments");
    if (strcmp(argv[1], "refused") == 0) {
        int fd = listening(AF_INET, 1);
        unsigned short port = port_of(fd);
        close(fd);
        int client = socket(AF_INET, SOCK_STREAM, 0);
        socklen_t length = address(AF_INET, port, &to);
        check(connect(client, (struct sockaddr *)&to, length) == -1 && errno == ECONNREFUSED,
              "refused");
        close(client);
        printf("pid=%d\nport=%d\n", getpid(), port);
        return 0;
    }
    if (strcmp(argv[1], "silent") == 0) {
        // Who is not accepted fills the queue; whoever comes then gets no answer.
        int server = listening(AF_INET, 0);
        unsigned short port = port_of(server);
        int clients[8];
        for (int i = 0; i < 8; i++) {
            clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
            socklen_t length = address(AF_INET, port, &to);
            connect(clients[i], (struct sockaddr *)&to, length);
        }
        struct pollfd wait = { clients[7], POLLOUT, 0 };
        poll(&wait, 1, atoi(argv[2]));
        printf("pid=%d\nport=%d\n", getpid(), port);
        return 0;
    }
    int family = argv[1][0] == '6' ? AF_INET6 : AF_INET;
    int server = listening(family, 16);
    unsigned short port = port_of(server);
    for (int i = atoi(argv[2]); i > 0; i--) {
        int client = socket(family, SOCK_STREAM, 0);
        socklen_t length = address(family, port, &to);
        check(connect(client, (struct sockaddr *)&to, length) == 0, "connect");
        int peer = accept(server, NULL, NULL);
        check(peer >= 0, "accept");
        // The end that is closed first keeps the port for a time.
        close(client);
        char byte;
        check(read(peer, &byte, 1) == 0, "read");
        close(peer);
    }
    printf("pid=%d\nport=%d\n", getpid(), port);
    return 0;
}
