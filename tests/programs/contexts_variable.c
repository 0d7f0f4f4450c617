// The thread-local variable by which a process publishes for which span of a trace a thread works
// (OTEP 4947, "Thread Context"), for a program of its own or a library.

#ifdef PADDING
// So much that a library loaded later gets no room in the static part.
static __thread char padding[PADDING];

char *pad(void) {
	return padding;
}
#endif

__attribute__((visibility("default"))) __thread void *volatile otel_thread_ctx_v1;

__attribute__((visibility("default"))) void publish(void *record) {
#ifdef PADDING
	pad()[0]++;
#endif
	otel_thread_ctx_v1 = record;
}
