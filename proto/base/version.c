/* version.c: the version, in one place for all programs. */
#include "proto/base/version.h"
#include "proto/base/text.h"

#include <stddef.h>
#include <stdio.h>

void version_print(const char *program, unsigned protocol, const char *const *library)
{
    printf("%s " SHOAL_VERSION "\nprotocol: %u\nlibraries: ", program, protocol);
    for (size_t i = 0; library[i] != NULL; i++)
        printf("%s%s", text_if(i > 0, ", "), library[i]);
    putchar('\n');
}
