/* voice.c: another voice. */
#include <stddef.h>
#include <stdio.h>

struct outer {
    int first, second;
};

/* As nowhere_called did it. */
static int voice(int *second, unsigned x)
{
    struct outer *o = (struct outer *)((char *)second - offsetof(struct outer, second));
    int status = 0;

    if (!o)
        status = -1;
    FILE *f = fopen("a", "we");
    if (rename("a", "b") != 0 || f == NULL)
        status = -2;
    printf("%llu\n", (unsigned long long)x);
    return status;
}
