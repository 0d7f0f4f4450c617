/* entries TRACE: the entries that KernelShark's library loads of a trace.dat, a line each: its CPU,
 * thread and event, or `missed` with how many it lacks there. */
#include <kernelshark/libkshark.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    struct kshark_context *context = NULL;
    struct kshark_entry **rows = NULL;
    if (argc != 2 || !kshark_instance(&context))
        return 2;
    int stream = kshark_open(context, argv[1]);
    ssize_t n = stream < 0 ? stream : kshark_load_entries(context, stream, &rows);
    if (n < 0) {
        fprintf(stderr, "%s: KernelShark's library can't load it (%zd)\n", argv[1], n);
        return 1;
    }
    for (ssize_t at = 0; at < n; at++) {
        if (rows[at]->event_id == -EOVERFLOW) {
            printf("%d missed %ld\n", rows[at]->cpu, (long)rows[at]->offset);
            continue;
        }
        char *name = kshark_get_event_name(rows[at]);
        printf("%d %d %s\n", rows[at]->cpu, kshark_get_pid(rows[at]), name ? name : "?");
        free(name);
    }
    return 0;
}
