// The request looks for a file that is not there yet, again and again, with a sleep of 20 ms in
// between; "publisher" renames it there 600 ms later.
#include "zoo.h"
int main(void) {
    zoo_init("23-retry");
    name("renderer");
    char p[512], t[520];
    snprintf(p, sizeof p, "%s/template.ready", env("ZOO_OUT", "."));
    snprintf(t, sizeof t, "%s.tmp", p);
    unlink(p);
    pid_t k = fork();
    if (!k) {
        name("publisher");
        close(open(t, O_WRONLY | O_CREAT, 0600));
        msleep(600);
        rename(t, p);
        _exit(0);
    }
    truth("\"publisher_pid\":%d", (int)k);
    int fd;
    req_begin();
    while ((fd = open(p, O_RDONLY)) < 0)
        msleep(20);
    req_end();
    waitpid(k, 0, 0);
    zoo_done();
}
