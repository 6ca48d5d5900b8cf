//! Limits the list of nodes to the size that clients accept.

use std::iter;

use prost::Message;
use proto::limits::{TEXT, shortened};
use proto::v1::{ListNodesResponse, NodeRecord};

/// Number of bytes reserved for the gaps: texts about missing information, such as the records that are left out.
const GAPS: usize = 16 * TEXT;

/// Cuts the answer to at most `limit` bytes. First shortens all texts to the same length. If that does not suffice,
/// leaves out the last records, and adds a gap that says how many.
pub(crate) fn bounded(mut answer: ListNodesResponse, limit: usize) -> ListNodesResponse {
    bound_gaps(&mut answer.gaps);
    let mut longest = TEXT;
    while answer.encoded_len() > limit && longest > 0 {
        longest /= 2;
        shorten_texts(&mut answer.nodes, longest);
    }
    leave_out(&mut answer, limit);
    answer
}

/// Shortens the gaps. They come from watches, at most one gap per kind, and quote messages of the API server.
fn bound_gaps(gaps: &mut Vec<String>) {
    gaps.truncate(GAPS / TEXT - 1);
    for gap in gaps {
        *gap = shortened(std::mem::take(gap), TEXT);
    }
}

fn shorten_texts(nodes: &mut [NodeRecord], longest: usize) {
    for health in nodes.iter_mut().filter_map(|record| record.health.as_mut()) {
        for text in iter::once(&mut health.message).chain(&mut health.worsening) {
            *text = shortened(std::mem::take(text), longest);
        }
    }
}

fn leave_out(answer: &mut ListNodesResponse, limit: usize) {
    if answer.encoded_len() <= limit {
        return;
    }
    let (mut bytes, all) = (GAPS, answer.nodes.len());
    // Each record also has its key and its length (Protocol Buffers, "Encoding").
    let size = |record: &NodeRecord| prost::length_delimiter_len(record.encoded_len()) + 1;
    let fit = answer.nodes.iter().take_while(|record| {
        bytes += size(record) + record.encoded_len();
        bytes <= limit
    });
    let fit = fit.count();
    answer.nodes.truncate(fit);
    answer.gaps.push(format!(
        "{} of {all} nodes are left out, the last by name: one answer has at most {limit} bytes",
        all - fit
    ));
}

#[cfg(test)]
mod tests {
    use proto::limits::{ANSWER, NAME, TOKEN};
    use proto::v1::Health;

    use super::*;

    /// Largest message in bytes that gRPC clients accept by default (tonic, grpc-go, grpc-c).
    const DEFAULT_MESSAGE_LIMIT: usize = 4 << 20;

    fn answer(nodes: usize, text: usize) -> ListNodesResponse {
        let record = |number| NodeRecord {
            node: format!("compute-{number:05}"),
            boot_id: "00000000-0000-0000-0000-000000000000".to_owned(),
            rabbit: format!("rabbit-{:04}", number / 16),
            health: Some(Health { message: "x".repeat(text), ..Health::default() }),
            ..NodeRecord::default()
        };
        ListNodesResponse { nodes: (0..nodes).map(record).collect(), gaps: Vec::new() }
    }

    #[test]
    fn an_answer_that_fits_is_not_changed() {
        let all = answer(1000, 200);
        assert_eq!(bounded(all.clone(), ANSWER), all);
    }

    #[test]
    fn long_texts_of_a_whole_machine_are_shortened_and_no_node_is_left_out() {
        let answer = bounded(answer(11_832, TEXT), ANSWER);
        assert!(answer.encoded_len() <= DEFAULT_MESSAGE_LIMIT, "{}", answer.encoded_len());
        assert_eq!((answer.nodes.len(), answer.gaps.len()), (11_832, 0));
        let message = answer.nodes[0].health.as_ref().unwrap().message.as_str();
        let all = format!(" … ({TEXT} bytes in all)");
        assert!(message.starts_with('x') && message.ends_with(&all), "{message}");
    }

    #[test]
    fn records_that_do_not_fit_are_left_out_and_a_gap_says_how_many() {
        let mut answer = answer(40_000, TEXT);
        answer.gaps = vec!["x".repeat(8 << 20); 100];
        for record in &mut answer.nodes {
            record.rabbit = "r".repeat(NAME);
            record.version = "v".repeat(TOKEN);
        }
        let answer = bounded(answer, ANSWER);
        assert!(answer.encoded_len() <= DEFAULT_MESSAGE_LIMIT, "{}", answer.encoded_len());
        assert!(answer.nodes.len() > 1000, "{}", answer.nodes.len());
        let left_out = 40_000 - answer.nodes.len();
        let gap = answer.gaps.last().unwrap();
        assert!(gap.starts_with(&format!("{left_out} of 40000 nodes are left out")), "{gap}");
    }
}
