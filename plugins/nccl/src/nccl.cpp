// The ordinary functions of gx::nccl, compiled once.
#include <gx/nccl/impl/communicator.ipp>
#include <gx/nccl/impl/error.ipp>
#include <gx/nccl/impl/launched_world.ipp>
#include <gx/nccl/impl/message_marks.ipp>
#include <gx/nccl/impl/rank_board.ipp>
#include <gx/nccl/impl/transport.ipp>
#include <gx/nccl/impl/world.ipp>
