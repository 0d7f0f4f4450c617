// The request opens a file; "scanner" (fanotify) has to allow that, and takes 400 ms of computing.
#include "zoo.h"
#include <sys/fanotify.h>
__attribute__((noinline)) void match_signatures(void) { burn(400); }
int main(void) {
    zoo_init("56-fanotify");
    name("importer");
    char p[512], b[4096], x;
    int r[2];
    if (pipe(r))
        die("pipe");
    snprintf(p, sizeof p, "%s/upload.doc", env("ZOO_OUT", "."));
    close(open(p, O_WRONLY | O_CREAT, 0600));
    int f = fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC, O_RDONLY);
    if (f < 0 || fanotify_mark(f, FAN_MARK_ADD, FAN_OPEN_PERM, AT_FDCWD, p))
        lacking("fanotify");
    pid_t k = fork();
    if (!k) {
        name("scanner");
        ssize_t n = read(f, b, sizeof b);
        if (n <= 0)
            _exit(1);
        struct fanotify_event_metadata *m = (void *)b;
        match_signatures();
        struct fanotify_response a = {m->fd, FAN_ALLOW};
        if (write(f, &a, sizeof a) < 0)
            _exit(2);
        _exit(0);
    }
    truth("\"culprit_pid\":%d", (int)k);
    msleep(20);
    req_begin();
    int fd = open(p, O_RDONLY);
    req_end();
    waitpid(k, 0, 0);
    zoo_done();
}
