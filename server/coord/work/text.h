/* text.h: data.train as files, streams or joined logs, which one worker indexes at once. */
#ifndef SERVER_COORD_WORK_TEXT_H
#define SERVER_COORD_WORK_TEXT_H

#include "server/coord/work/source.h"

extern const struct coord_source coord_text_source;

#endif
