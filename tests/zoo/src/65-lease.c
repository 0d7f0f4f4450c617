// The request opens a file for writing whose lease (fcntl F_SETLEASE) "smbcache" has; it gives the
// lease back after 400 ms.
#include "zoo.h"
static volatile int broken;
static void on(int s) { broken = 1; }
int main(void) {
    zoo_init("65-lease");
    name("editor");
    char p[512], x;
    int r[2];
    if (pipe(r))
        die("pipe");
    snprintf(p, sizeof p, "%s/shared.xls", env("ZOO_OUT", "."));
    close(open(p, O_WRONLY | O_CREAT, 0600));
    pid_t k = fork();
    if (!k) {
        name("smbcache");
        signal(SIGIO, on);
        int f = open(p, O_RDONLY);
        if (f < 0 || fcntl(f, F_SETLEASE, F_RDLCK)) {
            write(r[1], "e", 1);
            _exit(1);
        }
        write(r[1], "x", 1);
        while (!broken)
            pause();
        msleep(400);
        fcntl(f, F_SETLEASE, F_UNLCK);
        msleep(30);
        _exit(0);
    }
    truth("\"culprit_pid\":%d", (int)k);
    if (read(r[0], &x, 1) != 1 || x != 'x')
        lacking("F_SETLEASE");
    msleep(5);
    req_begin();
    int f = open(p, O_WRONLY);
    req_end();
    waitpid(k, 0, 0);
    zoo_done();
}
