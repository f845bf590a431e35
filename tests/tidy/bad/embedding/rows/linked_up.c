/* linked_up.c: calls a room above without including it; no header declares it. */
int engine_linked(void);

int linked_up(void)
{
    return engine_linked();
}
