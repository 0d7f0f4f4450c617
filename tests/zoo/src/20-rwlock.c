// The request takes a lock for reading, after a queued writer, "settings"; the lock is held by a
// reader, "exporter", which sleeps.
#include "zoo.h"
static pthread_rwlock_t rw;
static volatile int held;
static void *exporter(void *a) {
    name("exporter");
    truth("\"culprit_tid\":%d", (int)tid());
    pthread_rwlock_rdlock(&rw);
    held = 1;
    msleep(500);
    pthread_rwlock_unlock(&rw);
    return 0;
}
static void *settings(void *a) {
    name("settings");
    pthread_rwlock_wrlock(&rw);
    burn(1);
    pthread_rwlock_unlock(&rw);
    return 0;
}
int main(void) {
    zoo_init("20-rwlock");
    name("lookup");
    pthread_rwlockattr_t at;
    pthread_rwlockattr_init(&at);
    pthread_rwlockattr_setkind_np(&at, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&rw, &at);
    pthread_t e, s;
    pthread_create(&e, 0, exporter, 0);
    while (!held)
        msleep(1);
    pthread_create(&s, 0, settings, 0);
    msleep(30);
    req_begin();
    pthread_rwlock_rdlock(&rw);
    pthread_rwlock_unlock(&rw);
    req_end();
    pthread_join(e, 0);
    pthread_join(s, 0);
    zoo_done();
}
