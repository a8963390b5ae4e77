"""Products joined with a collective, over two processes: those of the whole, computed by each.

`torchrun fused_collectives.py npu`: prints one line a rank."""

import torch
import torch.distributed as dist
import torch_npu

TRIED = (
    "npu_all_gather_base_mm",
    "npu_alltoallv_gmm",
    "npu_gmm_alltoallv",
    "npu_mm_all_reduce_base",
    "npu_mm_reduce_scatter_base",
)


def main():
    dist.init_process_group("hccl")
    rank = dist.get_rank()
    torch.npu.set_device(rank)
    group = dist.distributed_c10d._get_default_group()
    name = group._get_backend(torch.device("npu")).get_hccl_comm_name(rank)
    torch.manual_seed(0)
    x, w = torch.randn(2, 4, 3), torch.randn(2, 3, 5)
    mine, weight = x[rank].npu(), w[rank].npu()
    whole = x[0] @ w[0] + x[1] @ w[1]

    same(torch_npu.npu_mm_all_reduce_base(mine, weight, name), whole)
    product, rows = torch_npu.npu_all_gather_base_mm(mine, weight, name, 2)
    same(product, x.flatten(0, 1) @ w[rank])
    same(rows, x.flatten(0, 1))
    share = torch_npu.npu_mm_reduce_scatter_base(mine, weight, name, 2)
    same(share, whole[rank * 2 : rank * 2 + 2])
    try:
        torch_npu.npu_mm_all_reduce_base(mine.requires_grad_(), weight, name).sum().backward()
        raise AssertionError("a derivative that the device has not")
    except RuntimeError as error:
        assert "derivative for npu::npu_mm_all_reduce_base" in str(error), error
    experts(rank, name)
    uneven(rank)
    print(f"rank {rank} agrees")
    dist.destroy_process_group()


def experts(rank, name):
    """Two experts a rank; rank 0 sends 1, 2, 0, 3 rows to the four experts, rank 1 sends 2, 0, 4, 1."""
    counts = torch.tensor([[1, 2, 0, 3], [2, 0, 4, 1]])
    tokens, weights = torch.randn(2, 7, 3), torch.randn(4, 3, 5)
    send = counts[rank].tolist()
    receive = counts[:, rank * 2 : rank * 2 + 2].flatten().tolist()
    shared = torch.randn(4, 3), torch.randn(3, 2)
    sent = tokens[rank, : sum(send)].npu()
    mine = weights[rank * 2 : rank * 2 + 2].npu()
    # What each expert here gets: first of rank 0, then of rank 1.
    starts = torch.nn.functional.pad(counts.cumsum(1), (1, 0))
    rows = [
        tokens[source, starts[source, expert] : starts[source, expert + 1]]
        for expert in (rank * 2, rank * 2 + 1)
        for source in (0, 1)
    ]
    products = [part @ weights[rank * 2 + at // 2] for at, part in enumerate(rows)]
    found, of_shared, permuted = torch_npu.npu_alltoallv_gmm(
        *(sent, mine, name, 2, send, receive),
        mm_x=shared[0].npu(),
        mm_weight=shared[1].npu(),
        permute_out_flag=True,
    )
    same(found, torch.cat(products))
    same(of_shared, shared[0] @ shared[1])
    same(permuted, torch.cat(rows))
    # The other way round, each row comes back to its place, through the expert it was sent to.
    back, nothing = torch_npu.npu_gmm_alltoallv(
        *(permuted, mine.transpose(1, 2), name, 2, receive, send), trans_gmm_weight=True
    )
    assert nothing is None
    of_rows = torch.repeat_interleave(torch.arange(4), counts[rank])
    wanted = [row @ weights[at] for row, at in zip(tokens[rank], of_rows, strict=False)]
    same(back, torch.stack(wanted))


def uneven(rank):
    """Rank 0 has one row, rank 1 has two."""
    rows = torch.arange(6.0).view(3, 2)
    parts = rows.split([1, 2])
    whole = torch.zeros(3, 2).npu()
    torch_npu.distributed.all_gather_into_tensor_uneven(whole, parts[rank].npu(), [1, 2])
    same(whole, rows)
    mine = torch.zeros_like(parts[rank]).npu()
    torch_npu.distributed.reduce_scatter_tensor_uneven(mine, rows.npu(), [1, 2])
    same(mine, 2 * parts[rank])


def same(device, host):
    assert device.device.type == "npu"
    torch.testing.assert_close(device.detach().cpu(), host)


if __name__ == "__main__":
    main()
