/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Details of objects for `rdma resource show OBJECT -dd`. */
#ifndef ROCEV2_RESTRACK_H
#define ROCEV2_RESTRACK_H

struct ib_cq;
struct ib_mr;
struct ib_qp;
struct ib_srq;
struct sk_buff;

int rocev2_fill_res_cq_entry(struct sk_buff *msg, struct ib_cq *ibcq);
int rocev2_fill_res_mr_entry(struct sk_buff *msg, struct ib_mr *ibmr);
int rocev2_fill_res_qp_entry(struct sk_buff *msg, struct ib_qp *ibqp);
int rocev2_fill_res_srq_entry(struct sk_buff *msg, struct ib_srq *ibsrq);

#endif
