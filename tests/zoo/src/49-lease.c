// The request opens a file of which "cachefsd", another process, holds a lease (fcntl(F_SETLEASE)).
// It writes its data back on a slow disk before it gives the lease back.
#include "zoo.h"
int main(void) {
    zoo_init("49-lease");
    name("editor");
    char p[512], q[512], b[4096] = "x";
    int r[2];
    if (pipe(r))
        die("pipe");
    snprintf(p, sizeof p, "%s/shared.doc", env("ZOO_OUT", "."));
    snprintf(q, sizeof q, "%s/blocks.dat", env("ZOO_SLOW", "slow"));
    pid_t k = fork();
    if (!k) {
        name("cachefsd");
        sigset_t io;
        int signal, l = open(p, O_RDWR | O_CREAT, 0644), f = open(q, O_RDWR | O_CREAT, 0644);
        sigemptyset(&io);
        sigaddset(&io, SIGIO);
        sigprocmask(SIG_BLOCK, &io, 0);
        if (fcntl(l, F_SETLEASE, F_WRLCK))
            die("lease");
        for (int i = 0; i < 8; i++)
            pwrite(f, b, sizeof b, i * 65536);
        if (write(r[1], "x", 1) != 1)
            _exit(1);
        // Somebody opens the file.
        sigwait(&io, &signal);
        fsync(f);
        fcntl(l, F_SETLEASE, F_UNLCK);
        msleep(20);
        _exit(0);
    }
    truth("\"culprit_pid\":%d", (int)k);
    char x;
    if (read(r[0], &x, 1) != 1)
        die("read");
    req_begin();
    int l = open(p, O_RDONLY);
    req_end();
    close(l);
    waitpid(k, 0, 0);
    zoo_done();
}
