// The request reads 10 blocks past the page cache (O_DIRECT) from a slow disk.
#include "zoo.h"
int main(void) {
    zoo_init("31-direct-read");
    name("search");
    char p[512];
    void *b;
    snprintf(p, sizeof p, "%s/catalog.bin", env("ZOO_SLOW", "slow"));
    if (posix_memalign(&b, 4096, 4096))
        die("memalign");
    int fd = open(p, O_RDONLY | O_DIRECT);
    if (fd < 0)
        die(p);
    truth("\"file\":\"catalog.bin\"");
    req_begin();
    for (int i = 0; i < 10; i++)
        if (pread(fd, b, 4096, i * 262144) != 4096)
            die("pread");
    req_end();
    zoo_done();
}
