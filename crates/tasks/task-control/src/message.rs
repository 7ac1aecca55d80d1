//! The lines that go over the control socket.

use serde::{Deserialize, Serialize};

use crate::job::Job;
use crate::status::Status;

/// The version of these messages. A broker answers a request of another version with [`Answer::Refused`].
pub const VERSION: u32 = 1;

/// Longest request, bytes. A job that lists all instances of 16 GPUs needs about 30,000.
pub const MAX_REQUEST: usize = 256 << 10;

/// A request of root's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cmd", rename_all = "lowercase")]
pub enum Request {
    /// A job comes. The same job again changes nothing.
    Add(Job),
    /// A job ended. A job that is not known is no error.
    End {
        /// Slurm's job id.
        job: u32,
    },
    /// Asks who holds and waits for what.
    Status,
    /// A device grants nothing for the reason given, or grants again.
    Hold {
        /// The device.
        uuid: String,
        /// Why; `None` to grant again.
        why: Option<String>,
    },
    /// The broker ends; refused while it has jobs.
    Stop,
}

/// A request as it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// [`VERSION`].
    pub v: u32,
    /// The request.
    #[serde(flatten)]
    pub request: Request,
}

/// The outcome of [`Request::End`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Processes of the job whose memory NVML still shows: it stays quarantined until it is gone.
    pub left: u32,
    /// Jobs that the broker still has.
    pub jobs: u32,
}

/// An answer of the broker's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "lowercase")]
pub enum Answer {
    /// To `Add`, `Hold` and `Stop`.
    Done,
    /// To `End`.
    Ended(Ended),
    /// To `Status`.
    Status(Status),
    /// The request changed nothing.
    Refused {
        /// Why, for people.
        why: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_these_lines() {
        let line = |request| serde_json::to_string(&Line { v: VERSION, request }).unwrap();
        assert_eq!(line(Request::Status), r#"{"v":1,"cmd":"status"}"#);
        assert_eq!(line(Request::End { job: 12 }), r#"{"v":1,"cmd":"end","job":12}"#);
        let job = Job { job: 12, uid: 1001, seats: 4, gpu_mem_mib: None, devices: Vec::new() };
        let text = line(Request::Add(job));
        assert_eq!(
            text,
            r#"{"v":1,"cmd":"add","job":12,"uid":1001,"seats":4,"gpu_mem_mib":null,"devices":[]}"#
        );
        assert!(
            matches!(serde_json::from_str::<Line>(&text).unwrap().request, Request::Add(job) if job.seats == 4)
        );
    }
}
