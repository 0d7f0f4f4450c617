// The request touches a page whose handler (userfaultfd), the thread "pager", fills it 400 ms
// later.
#include "zoo.h"
#include <sys/ioctl.h>
#include <linux/userfaultfd.h>
static int uf;
static char *m;
static void *pager(void *a) {
    name("pager");
    struct uffd_msg g;
    static char src[4096] __attribute__((aligned(4096)));
    while (read(uf, &g, sizeof g) == sizeof g) {
        msleep(400);
        struct uffdio_copy c = {.dst = (long)m, .src = (long)src, .len = 4096};
        ioctl(uf, UFFDIO_COPY, &c);
        return 0;
    }
    return 0;
}
int main(void) {
    zoo_init("52-userfault");
    name("vmrestore");
    uf = syscall(SYS_userfaultfd, O_CLOEXEC);
    if (uf < 0)
        lacking("userfaultfd");
    struct uffdio_api api = {.api = UFFD_API};
    if (ioctl(uf, UFFDIO_API, &api))
        lacking("UFFDIO_API");
    m = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register r = {.range = {(long)m, 4096}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (ioctl(uf, UFFDIO_REGISTER, &r))
        die("UFFDIO_REGISTER");
    pthread_t t;
    pthread_create(&t, 0, pager, 0);
    truth("\"handler\":\"pager\"");
    msleep(20);
    req_begin();
    volatile char x = m[0];
    req_end();
    pthread_join(t, 0);
    zoo_done();
}
