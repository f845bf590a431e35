/* export_moved.c: `shoal checkpoint export` of releases up to 0.2.0. It wrote one table to one file
 * and the network as blocks of 512 numbers; an alias would give the same words another meaning. */
#include "deploy/cli/cli.h"
#include "deploy/cli/export.h"

#include <stdio.h>
#include <string.h>

/* argv: "checkpoint", "export", then the words of the line. */
int export_moved(int argc, char **argv)
{
    bool binary = false, format = false;
    fputs("shoal checkpoint export: this verb is `shoal export` now, which makes a folder with a "
          "file for each table, and has the network as named tensors:\n  shoal export",
          stderr);
    for (int i = 2; i < argc; i++) {
        const char *word = argv[i];
        format |= strncmp(word, "--format", 8) == 0;
        bool last = strcmp(word, "binary") == 0 || strcmp(word, "--format=binary") == 0;
        binary |= last;
        fputc(' ', stderr);
        if (last)
            fputs(word[0] == '-' ? "--format=npy" : "npy", stderr);
        else
            cli_word_print(stderr, word);
    }
    if (!format)
        fputs(" --format tsv", stderr);
    fputc('\n', stderr);
    if (binary)
        fputs("npy takes the place of binary: keys in TABLE.keys.npy, first-order weights in "
              "TABLE.first.npy, vectors in TABLE.vectors.npy\n",
              stderr);
    return 64;
}
