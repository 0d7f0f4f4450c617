// The request waits for reads by io_uring (past the page cache) from a slow disk.
#include "zoo.h"
#include <liburing.h>
int main(void) {
    zoo_init("51-uring-read");
    name("vectordb");
    char p[512];
    void *b;
    snprintf(p, sizeof p, "%s/catalog.bin", env("ZOO_SLOW", "slow"));
    if (posix_memalign(&b, 4096, 1 << 16))
        die("memalign");
    struct io_uring u;
    struct io_uring_cqe *c;
    if (io_uring_queue_init(16, &u, 0) < 0)
        lacking("io_uring");
    int fd = open(p, O_RDONLY | O_DIRECT);
    if (fd < 0)
        die(p);
    truth("\"file\":\"catalog.bin\"");
    req_begin();
    for (int i = 0; i < 10; i++)
        io_uring_prep_read(io_uring_get_sqe(&u), fd, (char *)b + i * 4096, 4096, i * 524288);
    io_uring_submit_and_wait(&u, 10);
    for (int i = 0; i < 10; i++) {
        if (io_uring_wait_cqe(&u, &c))
            die("wait");
        io_uring_cqe_seen(&u, c);
    }
    req_end();
    zoo_done();
}
