// The request computes 60 ms on one CPU, with eight threads "shard" of the same process bound to
// it.
#include "zoo.h"
static void *shard(void *a) {
    name("shard");
    spin(900);
    return 0;
}
int main(void) {
    zoo_init("28-crowded-cpu");
    name("gateway");
    pin(lastcpu());
    pthread_t t[8];
    for (int i = 0; i < 8; i++)
        pthread_create(&t[i], 0, shard, 0);
    truth("\"culprit_pid\":%d", (int)getpid());
    msleep(20);
    req_begin();
    burn(60);
    req_end();
    for (int i = 0; i < 8; i++)
        pthread_join(t[i], 0);
    zoo_done();
}
