/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* User-space stand-in: the doubly linked, circular list, as far as headers of the module use it. */
#ifndef SHIM_LINUX_LIST_H
#define SHIM_LINUX_LIST_H

#include <linux/kernel.h>

struct list_head {
	struct list_head *next, *prev;
};

static inline void INIT_LIST_HEAD(struct list_head *list)
{
	list->next = list;
	list->prev = list;
}

static inline bool list_empty(const struct list_head *head)
{
	return READ_ONCE(head->next) == head;
}

static inline void list_add_tail(struct list_head *node, struct list_head *head)
{
	node->prev = head->prev;
	node->next = head;
	head->prev->next = node;
	head->prev = node;
}

/* all of @list behind @at, which was one of another list; @list is empty then */
static inline void shim_list_splice(struct list_head *list, struct list_head *at)
{
	if (list_empty(list))
		return;
	list->next->prev = at;
	list->prev->next = at->next;
	at->next->prev = list->prev;
	at->next = list->next;
	INIT_LIST_HEAD(list);
}

static inline void list_splice_init(struct list_head *list, struct list_head *head)
{
	shim_list_splice(list, head);
}

static inline void list_splice_tail_init(struct list_head *list, struct list_head *head)
{
	shim_list_splice(list, head->prev);
}

#endif
