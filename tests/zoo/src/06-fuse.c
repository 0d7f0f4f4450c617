// The request reads a file of a FUSE file system. Its daemon, "thumbfs", answers reads 500 ms late,
// as it sleeps. Speaks the kernel's protocol: no libfuse is needed.
#include "zoo.h"
#include <linux/fuse.h>
#include <sys/mount.h>
static void reply(int fd, uint64_t unique, int error, const void *d, size_t n) {
    char b[8192];
    struct fuse_out_header h = {sizeof h + n, error, unique};
    memcpy(b, &h, sizeof h);
    if (n)
        memcpy(b + sizeof h, d, n);
    if (write(fd, b, sizeof h + n) < 0 && errno != ENOENT)
        _exit(3);
}
static void serve(int fd) {
    static char b[1 << 18];
    struct fuse_attr root = {.ino = 1, .mode = S_IFDIR | 0755, .nlink = 2},
                     file = {.ino = 2, .mode = S_IFREG | 0444, .nlink = 1, .size = 4096};
    for (;;) {
        ssize_t n = read(fd, b, sizeof b);
        if (n < 0) {
            if (errno == EINTR || errno == EAGAIN)
                continue;
            _exit(0);
        }
        struct fuse_in_header *h = (void *)b;
        char data[4096];
        memset(data, 'x', sizeof data);
        switch (h->opcode) {
        case FUSE_INIT: {
            struct fuse_init_out o = {
                .major = 7, .minor = 31, .max_write = 65536, .max_background = 12};
            reply(fd, h->unique, 0, &o, sizeof o);
            break;
        }
        case FUSE_GETATTR: {
            struct fuse_attr_out o = {.attr_valid = 60, .attr = h->nodeid == 1 ? root : file};
            reply(fd, h->unique, 0, &o, sizeof o);
            break;
        }
        case FUSE_LOOKUP: {
            struct fuse_entry_out o = {
                .nodeid = 2, .entry_valid = 60, .attr_valid = 60, .attr = file};
            reply(fd, h->unique, 0, &o, sizeof o);
            break;
        }
        case FUSE_OPEN: {
            struct fuse_open_out o = {.fh = 1, .open_flags = FOPEN_DIRECT_IO};
            reply(fd, h->unique, 0, &o, sizeof o);
            break;
        }
        case FUSE_READ:
            msleep(500);
            reply(fd, h->unique, 0, data, sizeof data);
            break;
        case FUSE_FLUSH:
        case FUSE_RELEASE:
            reply(fd, h->unique, 0, 0, 0);
            break;
        case FUSE_FORGET:
        case FUSE_BATCH_FORGET:
        case FUSE_INTERRUPT:
            break;
        default:
            reply(fd, h->unique, -ENOSYS, 0, 0);
        }
    }
}
int main(void) {
    zoo_init("06-fuse");
    name("gallery");
    char d[256], o[128], p[300], b[4096];
    snprintf(d, sizeof d, "%s/thumbs-%d", env("ZOO_OUT", "."), (int)getpid());
    int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (fd < 0)
        lacking("/dev/fuse");
    if (mkdir(d, 0755))
        die(d);
    snprintf(o, sizeof o, "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
    if (mount("thumbfs", d, "fuse", 0, o))
        lacking("mount");
    pid_t k = fork();
    if (!k) {
        name("thumbfs");
        serve(fd);
    }
    close(fd);
    truth("\"culprit_pid\":%d", (int)k);
    snprintf(p, sizeof p, "%s/cat.png", d);
    int f = open(p, O_RDONLY);
    if (f < 0)
        die(p);
    msleep(20);
    req_begin();
    if (read(f, b, sizeof b) < 0)
        die("read");
    req_end();
    close(f);
    umount2(d, MNT_DETACH);
    kill(k, SIGKILL);
    waitpid(k, 0, 0);
    rmdir(d);
    zoo_done();
}
