// The request asks a server over a Unix socket. Its worker, "catalog", waits for a file lock that
// "reindex", a third process, holds while it computes.
#include "zoo.h"
__attribute__((noinline)) void rebuild_index(void) { spin(500); }
int main(void) {
    zoo_init("08-rpc-lock");
    name("shopfront");
    char p[512], b[64];
    int s[2], r[2];
    snprintf(p, sizeof p, "%s/index.lock", env("ZOO_OUT", "."));
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, s) || pipe(r))
        die("socketpair");
    pid_t k1 = fork();
    if (!k1) {
        name("catalog");
        close(s[0]);
        int fd = open(p, O_RDWR | O_CREAT, 0644);
        while (read(s[1], b, sizeof b) > 0) {
            flock(fd, LOCK_EX);
            burn(1);
            flock(fd, LOCK_UN);
            if (write(s[1], "ok", 2) != 2)
                break;
        }
        _exit(0);
    }
    pid_t k2 = fork();
    if (!k2) {
        name("reindex");
        close(s[0]);
        close(s[1]);
        int fd = open(p, O_RDWR | O_CREAT, 0644);
        flock(fd, LOCK_EX);
        if (write(r[1], "x", 1) != 1)
            _exit(1);
        rebuild_index();
        flock(fd, LOCK_UN);
        msleep(50);
        _exit(0);
    }
    close(s[1]);
    truth("\"server_pid\":%d,\"culprit_pid\":%d", (int)k1, (int)k2);
    if (read(r[0], b, 1) != 1)
        die("read");
    req_begin();
    if (write(s[0], "q", 1) != 1 || read(s[0], b, sizeof b) != 2)
        die("rpc");
    req_end();
    close(s[0]);
    waitpid(k1, 0, 0);
    waitpid(k2, 0, 0);
    zoo_done();
}
