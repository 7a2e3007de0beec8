/* A resolver whose name servers do not answer for names below silent.test: preloaded, it stands before the C library's own
   function. It gives up after the 30 s that the C library waits for three name servers. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>

typedef int lookup(const char *, const char *, const struct addrinfo *, struct addrinfo **);

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    if (node && strstr(node, ".silent.test")) {
        sleep(30);
        return EAI_AGAIN;
    }
    lookup *real = (lookup *)dlsym(RTLD_NEXT, "getaddrinfo");
    return real(node, service, hints, found);
}
