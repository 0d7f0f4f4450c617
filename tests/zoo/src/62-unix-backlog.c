// The request connects to a Unix socket whose queue is full: "gunicorn", its server, computes and
// does not accept.
#include "zoo.h"
__attribute__((noinline)) void render_report(void) { burn(400); }
int main(void) {
    zoo_init("62-unix-backlog");
    name("proxy");
    char b[64];
    int r[2];
    if (pipe(r))
        die("pipe");
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s/app-%d", env("ZOO_OUT", "."), (int)getpid());
    unlink(a.sun_path);
    int l = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(l, (void *)&a, sizeof a) || listen(l, 0))
        die("bind");
    pid_t k = fork();
    if (!k) {
        name("gunicorn");
        if (read(r[0], b, 1) != 1)
            _exit(1);
        render_report();
        for (int i = 0; i < 2; i++)
            accept(l, 0, 0);
        msleep(30);
        _exit(0);
    }
    truth("\"culprit_pid\":%d", (int)k);
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(s, (void *)&a, sizeof a))
        die("connect");
    if (write(r[1], "x", 1) != 1)
        die("write");
    msleep(5);
    s = socket(AF_UNIX, SOCK_STREAM, 0);
    req_begin();
    if (connect(s, (void *)&a, sizeof a))
        die("connect");
    req_end();
    waitpid(k, 0, 0);
    unlink(a.sun_path);
    zoo_done();
}
