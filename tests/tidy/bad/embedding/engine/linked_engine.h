/* linked_engine.h: declares a function that is not called after it. */
#ifndef EMBEDDING_ENGINE_LINKED_ENGINE_H
#define EMBEDDING_ENGINE_LINKED_ENGINE_H

int engine_linked(void);

#endif
