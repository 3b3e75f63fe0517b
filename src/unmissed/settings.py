"""Settings: sizes and limits that change speed and memory, and how long to wait; none of them changes a ranking.

The defaults were chosen by benchmarks. Change one by `SETTINGS.ranked_rows = 1024`, before it is used.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Settings:
    """All settings of this process.

    Attributes
    ----------
    read_bytes : bytes per read of a file; a chunk and its parsed values fit into the CPU cache
    input_bytes : largest read from standard input, in bytes
    line_bytes : maximum length of a line; bounds the memory that a compressed file can claim
    line_fields : maximum number of delimiters in a line of a table
    cell_bytes : maximum size of a cell of a table
    decoded_bytes : maximum bytes of decoded Parquet cells in memory; a single row may have more
    text_block : size of a block of texts that one process converts, in bytes
    mapped_bytes : size up to which an array is read instead of memory-mapped, in bytes
    precision_entries : entries per block when the digits of float64 features are checked
    loss_scores : scores per block when only the sum of a loss is computed
    sorted_scores : scores of a dense matrix that are sorted per block
    decision_bytes : largest matrix of scores that `decision_function` returns, in bytes
    duplicate_bytes : capacity of the cache of solutions of duplicate labels; the oldest are evicted first
    frequent_features : most frequent features that have lines; lines fit in cache, and indices in 16 bits
    rare_fraction : rare features have lines, too, if they have less than this fraction of the non-zeros
    rare_scores : limit of rare-feature scores per batch, per row of X
    feature_bits : largest width of a packed feature index; it leaves 4 mantissa bits, a relative error of at
        most 1/32
    logistic_per_label : up to this many labels, passes for one label each are cheaper than one in lanes
    logistic_threshold : first threshold of the sample of rows; chosen by `benchmarks.training`
    direct_rows : scores of up to this many rows are computed directly from the shards, of more over dense tiles
    prepare_rows : a ranking of this many rows builds the layout of the quantized scan; it costs about as much as
        scoring that number of rows without it
    dense_direct_rows : up to this many rows are multiplied with dense weights without BLAS, which would copy them
    decided_labels : labels per row up to which decisions by a threshold are a ranking; rows with more are scored
        directly
    chunk_labels : labels per chunk of the quantized scan; their sums for one row fit into the cache
    dense_labels : a feature gets a dense line if more than 1 in 16 labels of a chunk use it
    int8_range : int8 covers weights up to this multiple of a label's root mean square weight
    candidate_capacity : candidates per row of the quantized scan, plus 4 k; a row with more is scored directly
    scan_sums : sums of the quantized scan per thread; more rows per task read the weights less often, but leave the
        CPU cache
    table_bytes : upper bound of the table and counts per feature and chunk, in bytes
    top_columns : maximum number of columns of a tree's first levels, which are scored in one pass
    dense_columns : a feature is dense if more than 1 in 4 columns of the first levels use it
    small_node : a node of at most this many rows is grown with all its descendants in one task
    vote_cells : maximum number of (row, leaf label) pairs per thread and batch
    ranked_rows : rows ranked at a time by `predict`
    task_rows : rows per task of a distributed prediction; a multiple of `ranked_rows`, so that results are
        identical
    evaluated_rows : rows evaluated at a time
    stand_in_rows : rows of the synthetic data that stands in for a data set of the catalog
    lock_seconds : seconds to wait while the first partition cleans up
    piece_seconds : seconds to wait until a shared disk shows a piece that another machine wrote
    """

    read_bytes: int = 1 << 19
    input_bytes: int = 1 << 19
    line_bytes: int = 1 << 28
    line_fields: int = 1 << 22
    cell_bytes: int = 1 << 26
    decoded_bytes: int = 1 << 24
    text_block: int = 1 << 22
    mapped_bytes: int = 1 << 14
    precision_entries: int = 1 << 18
    loss_scores: int = 1 << 20
    sorted_scores: int = 1 << 22
    decision_bytes: int = 2**31
    duplicate_bytes: int = 2**28
    frequent_features: int = 2**14
    rare_fraction: float = 0.05
    rare_scores: int = 8
    feature_bits: int = 19
    logistic_per_label: int = 6
    logistic_threshold: float = 0.2
    direct_rows: int = 256
    prepare_rows: int = 1024
    dense_direct_rows: int = 4
    decided_labels: int = 256
    chunk_labels: int = 8192
    dense_labels: int = 16
    int8_range: int = 4
    candidate_capacity: int = 1024
    scan_sums: int = 2**21
    table_bytes: int = 20
    top_columns: int = 2048
    dense_columns: int = 4
    small_node: int = 2048
    vote_cells: int = 2**21
    ranked_rows: int = 4096
    task_rows: int = 4 * 4096
    evaluated_rows: int = 1 << 18
    stand_in_rows: int = 20_000
    lock_seconds: float = 10.0
    piece_seconds: float = 10.0


SETTINGS = Settings()
